"""What runs say of the articles' claims (`labs.read.claims`), by code.

    verdict         what is said of a claim: the word, the figures, the witness
    evidence        the runs that are looked at, by condition
    judging         from a claim and the evidence to a verdict
    of_article      all verdicts on an article
    article1, ...   the judging functions of an article, and its verdicts

No verdict is written down anywhere: each one is computed from runs when it is asked for.
"""
