"""What runs say about the articles' claims (`labs.read.claims`).

    ledger      what an article says, and its figures for a run
    evidence    the runs that a verdict is computed from, by condition
    judge       from a claim and the evidence to a verdict
    verdict     the verdict on a claim: the word, the figures, the witnesses, the evidence
    composition one verdict from those of all testbeds and kernels
    sources     which runs judge which claim: those of a user, or the newest that can

No verdict and no kernel that a claim holds on is written down: both are computed from runs.
"""
