"""What goes in and what comes out: input lines, output tables."""
