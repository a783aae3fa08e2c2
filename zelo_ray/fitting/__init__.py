"""From judgments to scores: which pairs to ask about, Bradley-Terry, calibrated grades."""
