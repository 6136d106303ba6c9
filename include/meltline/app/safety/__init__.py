"""Safety of destructive steps: stop, arming, clocks, epochs, vetoes, locks and audit."""
