"""Great Expectations: judges the evidence about plans and writes it down as Data Docs."""
