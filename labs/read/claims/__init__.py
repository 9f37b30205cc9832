"""What runs say about the articles' claims (`labs.read.claims`).

    ledger      what an article says, claim by claim, and its figures for a run
    formulas    figures and comparisons of a ledger: arithmetic over columns of conditions
    sentences   reasons of a ledger, with figures filled in by name
    evidence    the rows that a verdict is computed from, by condition
    rules       from a claim and the evidence to a finding, by the rule that the ledger declares
    judge       from a finding to a verdict, if the runs can judge the claim
    verdict     the verdict on a claim: the word, the figures, the witnesses, the evidence
    composition one verdict from those of all testbeds and kernels
    sources     which runs judge which claim: those of a user, or the newest that can

No verdict and no kernel that a claim holds on is written down: both are computed from runs.
"""
