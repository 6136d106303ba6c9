"""Object stores: local disks and clouds."""
