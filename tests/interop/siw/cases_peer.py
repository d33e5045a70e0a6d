"""How siw behaves towards bytes that are written by hand. Weft has to live with each of these."""
