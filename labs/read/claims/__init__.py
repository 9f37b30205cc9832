"""What runs say of the articles' claims (`labs.read.claims`).

    ledger      what an article says, and its figures for a run
    evidence    the runs that a verdict looks at, by condition
    judge       from a claim and the evidence to a verdict
    verdict     what is said of a claim: the word, the figures, the witness; where two disagree

No verdict is written down anywhere: each one is computed from runs when it is asked for.
"""
