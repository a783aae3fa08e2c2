"""Charts of reports: functions from numbers to figures that ``charts.js`` draws."""
