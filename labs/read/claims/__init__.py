"""What runs say about the articles' claims (`labs.read.claims`).

    ledger      what an article says, claim by claim, and its figures for a run
    formulas    figures, comparisons and sentences of a ledger, from columns of conditions
    evidence    the rows that a verdict is computed from, by condition: of runs, of recorded draws
    judge       from a claim and the evidence to a verdict, by the rule that the ledger declares
    verdict     the verdict on a claim: the word, the figures, the witnesses, the runs behind it
    composition one verdict from those of all draws, testbeds and kernels
    sources     which runs judge which claim: those of a user, or the newest that can
    moved       which verdicts moved between two sets of them

No verdict and no kernel that a claim holds on is written down: both are computed from runs.
"""
