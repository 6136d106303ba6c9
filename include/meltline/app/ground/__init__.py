"""What every step asks first: may it go on, in which epoch, and what is vetoed."""
