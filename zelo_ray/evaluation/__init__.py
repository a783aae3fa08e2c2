"""What is measured of rankings and labels: measures, agreement, and how sure each is."""
