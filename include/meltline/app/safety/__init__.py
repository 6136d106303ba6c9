"""Permission to destroy: stop, arming, clock, epoch, vetoes, locks, and the audit of decisions."""
