"""Functions of LakeTS, called by SELECT lakets.…(…) with their original signatures (LT-34)."""
