"""What the articles say, as data.

    article1.toml   the claims: statement, expected, unit, tolerance, and how each is read from
                    runs; one file per article
    ledger          the data, read and checked
"""
