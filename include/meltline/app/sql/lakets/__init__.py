"""The functions of LakeTS, called by SELECT lakets.…(…) as the source writes them (LT-34)."""
