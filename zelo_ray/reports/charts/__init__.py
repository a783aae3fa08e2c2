"""Charts of reports: plain functions from numbers to figures that ``charts.js`` draws."""
