"""Define the warnings about results: one code each, with its sentences."""

from enum import Enum

Value = str | float

_ANOTHER_JUDGE = "Replace it by another model (--judges)"
_READ_BOTH = "Read both with zelo-ray explain, then remove one from --judges or fix its prompt"
_OTHER_FAMILY = "Replace one of them by a judge of another model family (--judges)"
_READ_ONE = "Read its answers (zelo-ray explain), then replace it by another model"
_MODELS = "{again} models that read: --judges openai:MODEL"


class WarningCode(Enum):
    """A reason to trust results less, with its sentences.

    They are shown as "TEXT: CONSEQUENCE. ADVICE.", with the values of a warning in them.

    Attributes:
        harm: from 0 to 100. From 80: there is no result, or a wrong one; from 60: a result may be
            wrong; from 40: it is less certain than it looks; below: good to know.
        section: the page's section that shows it.
        text: what is wrong, with its figure; it begins the sentence.
        consequence: what follows from it.
        advice: the flag or command that helps.
    """

    def __init__(self, harm: float, section: str, text: str, consequence: str, advice: str) -> None:
        self.harm, self.section, self.text = harm, section, text
        self.consequence, self.advice = consequence, advice

    # while judges were asked
    UNSCORED_QUERIES = (84, "unscored", "{queries} no scores", "{reasons}", "{advice}")
    BUDGET_USED_UP = (
        82,
        "judges",
        "{reason} before {judges} had answered everything",
        "scores of later queries lack these judgments",
        "{advice}",
    )
    JUDGE_STOPPED = (
        82,
        "judges",
        "{judges} stopped ({reason})",
        "scores of later queries lack these judgments",
        "Fix that and run the same command again: paid answers are kept",
    )
    ANSWERS_MISSING = (
        60,
        "failures",
        "{share:.0%} of {judge}'s answers are missing ({kinds})",
        "{consequence}",
        "{advice}",
    )
    PROMPTS_CUT = (
        80,
        "judges",
        "The server of {judge} counted {tokens:,} tokens at most, also of longer prompts",
        "it has probably read only a part of them, and judged what it has not read",
        (
            "Give it a larger context (of Ollama: OLLAMA_CONTEXT_LENGTH, num_ctx) or show less of "
            "documents (--document-tokens), and judge anew with another --out"
        ),
    )
    ANOTHER_MODEL = (
        70,
        "judges",
        "{judge} was answered by {models}",
        "its judgments are not those of the model that you asked, or of several",
        "Turn off fallbacks at the server or name the model that answers, and judge anew",
    )
    LINES_REJECTED = (
        50,
        "rejected",
        "{lines} set aside{first}",
        "their queries have no labels",
        "Fix the lines listed in rejected.parquet, and run the same command again",
    )
    # judges of a run
    DEMONSTRATION = (45, "{section}", "{judges}", "{consequence}", _MODELS)
    JUDGES_CONTRADICT = (
        72,
        "{section}",
        "{many} {contradict} {few}: they {measure}",
        (
            "one side probably reads the question the wrong way round, and it need not be the "
            "smaller one"
        ),
        _READ_BOTH,
    )
    JUDGES_ALIKE = (
        48,
        "judges",
        "The {judges} judges say nearly the same ({same:.2f} on {items:,} items or more)",
        "they probably count as about one",
        _OTHER_FAMILY,
    )
    JUDGE_SAYS_ONE_THING = (65, "judges", "{judge} {habit}", "it adds nothing{scores}", _READ_ONE)
    JUDGE_FOLLOWS_ORDER = (
        68,
        "agreement",
        "{judge} says {side}, whatever is shown there, in {share:.0%} of its votes",
        "its answers follow the order alone; {scores}",
        _ANOTHER_JUDGE,
    )
    JUDGE_PREFERS_PLACE = (
        55,
        "{section}",
        "{judge} prefers what comes {place}: what came first won {span} of the time instead of .50",
        "{consequence}",
        "{advice}",
    )
    MOSTLY_NOISE = (
        66,
        "queries",
        (
            "Most of the spread of the scores of a query, {spread:.2f} {unit}, is noise (the "
            "standard error of a score is {error:.2f})"
        ),
        "many ranks would change if the same judges answered again",
        "{more}: four times as many comparisons halve the standard error at best",
    )
    # judges beside people
    NO_JUDGE_ABOVE_CHANCE = (
        90,
        "{section}",
        "No judge agrees with these people better than chance ({coefficient}: {figures})",
        "labels of this panel say nothing about what these people want",
        "Give the judges the people's rubric, or use other models",
    )
    BELOW_CHANCE = (
        78,
        "{section}",
        "{judges} with people worse than chance ({coefficient}: {figures})",
        "their opinion is often the opposite of people's",
        "Read why with zelo-ray explain, and fix the prompt or the people's scale",
    )
    NOT_ABOVE_CHANCE = (
        68,
        "{section}",
        "{judges} with people no better than chance ({coefficient}: {figures})",
        "such a judge adds noise to the panel",
        "Remove it from --judges, or read why with zelo-ray explain",
    )
    TOO_FEW_ITEMS = (
        62,
        "{section}",
        "{judges} cannot be told from chance yet on {items} ({coefficient}: {figures})",
        "there are too few labels to say whether such a judge can be trusted",
        "Label more: zelo-ray label",
    )
    FLIPS = (
        52,
        "voting",
        "{judge} changes its winner with the order on {span} of pairs",
        "a vote in one order is worth little",
        "Count pairs in both orders only, or replace it by another model",
    )
    # rankers
    REVERSED_RANKS = (
        94,
        "leaderboard",
        "The ranks of {run} are the reverse of its scores in {queries}",
        (
            "are they distances? Runs are ordered by descending score, so this one is measured "
            "upside down"
        ),
        "Negate distances",
    )
    EQUAL_SCORES = (
        90,
        "leaderboard",
        "All scores of {run} among {among} are equal in {queries}",
        "they separate no documents, so its rank says nothing about the ranker",
        (
            "Check that its server or model scores each document, and that its scores are written "
            "with all digits"
        ),
    )
    TRUTH_CHANGED = (
        50,
        "leaderboard",
        "The truth has changed since the last bake-off in this folder",
        "its figures, and a gate that passed by them, were based on other judgments",
        "Do not compare with earlier figures",
    )
    QUERY_IN_ITS_POOL = (
        35,
        "leaderboard",
        "The query itself, by id and text, is among its own candidates in {queries}",
        "it is left out of the runs and of the truth, as BEIR's evaluation does",
        "Remove it from the runs, too, if others measure them",
    )
    DOCUMENT_WITH_QUERY_ID = (
        45,
        "leaderboard",
        "A document has the id of its query in {queries}, and another text or none that is known",
        "it is measured like any other, where BEIR's evaluation leaves it out",
        (
            "Give the folder of the collection as --truth, or --corpus and --queries, so that "
            "texts can be compared"
        ),
    )
    TOO_FEW_QUERIES = (
        74,
        "differences",
        "{queries} too few to compare rankers",
        "no difference can be tested",
        "Use at least {fewest} queries, and about fifty to see differences of .05",
    )
    TOO_FEW_LABELS = (
        66,
        "people",
        "Too few of people's labels bear on the difference to {others}",
        "what people would say of it is not known yet",
        "Label more documents: zelo-ray label --out LABELS --more N",
    )
    NO_SIGNIFICANT_LEAD = (
        70,
        "differences",
        "{lead}",
        "that {best} stands first by {measure} may be chance",
        "{advice}",
    )
    LEAD_UNSURE_BY_LABELS = (
        64,
        "differences",
        (
            "The lead of {best} over {others} is significant, but other answers of the judges "
            "could reverse it"
        ),
        "who decides by it alone may decide wrongly",
        "Ask more about these documents (cycles, repeats, judges), or let people label them",
    )
    LEAD_ONLY_BY_KIN = (
        64,
        "differences",
        (
            "The lead of {best} over {others} is not significant without judges of the same model "
            "family as one of the two"
        ),
        "who decides by it alone may decide wrongly",
        "Judge with models of other families (--judges), or let people label some documents",
    )
    RANKED_NOTHING = (
        88,
        "failures",
        "{ranker} ranked none of {queries}",
        "it takes no part",
        "The section says why; fix that and run the same command again",
    )
    RANKED_SOME = (
        62,
        "failures",
        "{ranker} ranked {ranked:,} of {queries:,} queries",
        "the others count as 0 in its means",
        "{advice}",
    )
    UNJUDGED_DOCUMENTS = (
        58,
        "unjudged",
        "Many of the first {depth} documents are unjudged (share judged: {shares})",
        "they count as not relevant, so these rankers may be better than they look",
        (
            "zelo-ray convert unjudged --all writes pools with them; annotate those on the --out "
            "of the truth"
        ),
    )
    # labels and protocols that are compared
    PAIRS_TURNED = (
        76,
        "siblings",
        "{pairs} significantly different under both labels, in opposite directions",
        "which labels are right decides which run is better",
        "Let people label the queries in the last section: zelo-ray label",
    )
    LEADER_CHANGED = (
        56,
        "leaderboards",
        "{old} leads by the old labels, and {new} by the new ones",
        "the choice of a run depends on the labels",
        "Check whether the two differ significantly before you choose",
    )
    LABELS_CONTRADICT = (
        54,
        "contradictions",
        "The new labels contradict the old ones in {contradicted:,} of {queries}",
        "one of the two is wrong about documents that decide the measure",
        "Read the first ones in the section, or let people judge them: zelo-ray label",
    )
    RUN_LACKS_QUERIES = (
        60,
        "leaderboards",
        "{run} did not rank {queries}",
        "they count as 0 in its means",
        "Run it on these queries as well",
    )


IN_RESULTS = frozenset(
    {
        WarningCode.UNSCORED_QUERIES,
        WarningCode.BUDGET_USED_UP,
        WarningCode.JUDGE_STOPPED,
        WarningCode.ANSWERS_MISSING,
        WarningCode.LINES_REJECTED,
        WarningCode.TOO_FEW_QUERIES,
        WarningCode.TOO_FEW_LABELS,
        WarningCode.NO_SIGNIFICANT_LEAD,
        WarningCode.LEAD_UNSURE_BY_LABELS,
        WarningCode.LEAD_ONLY_BY_KIN,
        WarningCode.RANKED_NOTHING,
        WarningCode.RANKED_SOME,
        WarningCode.PAIRS_TURNED,
        WarningCode.LEADER_CHANGED,
        WarningCode.LABELS_CONTRADICT,
        WarningCode.RUN_LACKS_QUERIES,
    }
)
"""Warnings that the terminal shows among the results of a command, and does not repeat."""
