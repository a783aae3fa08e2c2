"""What people see: lines of a terminal, and pages."""
