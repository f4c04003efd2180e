//! The habits of wording that the rule counts, and what to write instead.
//!
//! A habit is a list of short patterns over the words of one paragraph. In a pattern, `a|b` is a
//! choice of words, `*` any lower-case word, and `..` any text up to the end of the clause. A
//! pattern matches whole words, separated by single spaces, in the case it is written in.

/// A habit and its replacement.
pub(super) struct Habit {
    /// What a report calls it.
    pub(super) name: &'static str,
    /// What to write instead.
    pub(super) instead: &'static str,
    patterns: &'static [Pattern],
}

struct Pattern {
    start: Start,
    words: &'static str,
    /// The pattern does not count before one of these words.
    unless: &'static [&'static str],
}

/// Where in a paragraph a pattern may begin.
#[derive(Clone, Copy)]
enum Start {
    /// At any word.
    Anywhere,
    /// At the start of the paragraph, or after one of these characters and a space.
    ClauseAfter(&'static str),
    /// After a comma and a space.
    Comma,
}

const fn anywhere(words: &'static str) -> Pattern {
    Pattern { start: Start::Anywhere, words, unless: &[] }
}

const fn clause(marks: &'static str, words: &'static str) -> Pattern {
    Pattern { start: Start::ClauseAfter(marks), words, unless: &[] }
}

/// The habits, in the order of the report.
pub(super) const HABITS: &[Habit] = &[
    Habit {
        name: "who as a noun",
        instead: "name the actor: the writer, a reader, the client, another process",
        patterns: &[
            anywhere("whoever|Whoever|whomever|Whomever"),
            clause(
                ".;:,(",
                "who|Who is|has|was|waits|reads|appends|asks|opens|wants|holds|sees|goes|commits|finds|begins|keeps|\
                 makes|calls|had|can|does|gives|takes|comes|sends|writes",
            ),
            anywhere("for|by|of|to|from|with who"),
        ],
    },
    Habit {
        name: "somebody, nobody",
        instead: "name the actor: another process, no reader, every client",
        patterns: &[anywhere("somebody|Somebody|nobody|Nobody|anybody|Anybody|everybody|Everybody")],
    },
    Habit {
        name: "so many, so much, so long",
        instead: "name the parameter: `count` records, up to `bytes` bytes, after `timeout`",
        patterns: &[Pattern { start: Start::Anywhere, words: "so many|much|long|often|few", unless: &["as", "that"] }],
    },
    Habit {
        name: "a sentence that begins with Has",
        instead: "begin with a verb in the third person: Refreshes, Returns, Starts",
        patterns: &[clause(".;", "Has|Have the|a|an|it|its|them|those|everyone|what")],
    },
    Habit {
        name: "anew, but for, go on, no more",
        instead: "again, except, continue or resume, no longer",
        patterns: &[anywhere("anew"), anywhere("but|save for"), anywhere("gone|goes|go on"), anywhere("no more")],
    },
    Habit { name: "tell", instead: "report, return, show", patterns: &[anywhere("told|tell|tells")] },
    Habit {
        name: "a clause with what as its subject",
        instead: "use a noun: records not yet indexed, the newest segment",
        patterns: &[
            clause(
                ".;:",
                "what|What is|was|are|were|has|have|had|can|comes|came|goes|stands|it|they|those|no|others|does|did",
            ),
            clause(".;:", "what|What a|the * is|has|was"),
        ],
    },
    Habit {
        name: "take in, let go, come to, go by, go through",
        instead: "apply or read; delete, trim or release; reach; use; scan or traverse",
        patterns: &[
            anywhere("take|taken|takes|took in"),
            anywhere("let|lets go"),
            anywhere("letting go"),
            anywhere("come|comes|came to"),
            anywhere("go|goes by"),
            anywhere("go|goes|gone through"),
        ],
    },
    Habit {
        name: "an impersonal passive",
        instead: "name the actor: the writer waits, the index has",
        patterns: &[
            anywhere("it is looked"),
            anywhere("is|was had"),
            anywhere("is|are looked|waited"),
            anywhere("be had"),
            anywhere("is slept"),
        ],
    },
    Habit {
        name: "for in the sense of because",
        instead: "because, or a sentence of its own",
        patterns: &[Pattern {
            start: Start::Comma,
            words: "for it|there|they|what|who|nobody|none|somebody .. is|are|was|has|have|may|would|can",
            unless: &[],
        }],
    },
];

impl Habit {
    /// The hits of the habit in `text`, in order: where each begins and ends.
    pub(super) fn hits(&self, text: &str) -> Vec<(usize, usize)> {
        let starts = text.char_indices().filter(|(at, c)| is_word(*c) && !ends_in_word(&text[..*at])).map(|(at, _)| at);
        starts
            .filter_map(|at| {
                self.patterns.iter().find_map(|pattern| pattern.matches(text, at).map(|length| (at, at + length)))
            })
            .collect()
    }
}

impl Pattern {
    /// The length of a match at `text[at..]`, the start of a word.
    fn matches(&self, text: &str, at: usize) -> Option<usize> {
        let before = &text[..at];
        let may_begin = match self.start {
            Start::Anywhere => true,
            Start::Comma => before.ends_with(", "),
            Start::ClauseAfter(marks) => {
                before.is_empty() || before.strip_suffix(' ').is_some_and(|rest| rest.ends_with(|c| marks.contains(c)))
            }
        };
        let slots: Vec<&str> = self.words.split(' ').collect();
        let length = if may_begin { sequence(&text[at..], &slots)? } else { return None };
        let next = text[at + length..].strip_prefix(' ').unwrap_or_default();
        (!self.unless.contains(&word(next))).then_some(length)
    }
}

/// The length of the words of `slots` at the start of `text`.
fn sequence(text: &str, slots: &[&str]) -> Option<usize> {
    let Some((slot, others)) = slots.split_first() else {
        return Some(0);
    };
    if *slot == ".." {
        let clause = text.find(['.', ',', ';']).unwrap_or(text.len());
        let starts = text[..clause].char_indices().filter(|(at, c)| is_word(*c) && !ends_in_word(&text[..*at]));
        return starts.filter_map(|(at, _)| sequence(&text[at..], others).map(|length| at + length)).next_back();
    }
    let first = word(text);
    let fits = match *slot {
        "*" => !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_lowercase()),
        choice => choice.split('|').any(|one| one == first),
    };
    if !fits {
        return None;
    }
    if others.is_empty() {
        return Some(first.len());
    }
    let rest = text[first.len()..].strip_prefix(' ')?;
    sequence(rest, others).map(|length| first.len() + 1 + length)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(is_word)
}

/// The word at the start of `text`; empty when there is none.
fn word(text: &str) -> &str {
    &text[..text.find(|c| !is_word(c)).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words that count in `text`, with the position of their habit in the table.
    fn found(text: &str) -> Vec<(usize, &str)> {
        let hits = |(index, habit): (usize, &Habit)| {
            habit.hits(text).into_iter().map(move |(from, to)| (index, &text[from..to])).collect::<Vec<_>>()
        };
        HABITS.iter().enumerate().flat_map(hits).collect()
    }

    #[test]
    fn each_habit_is_found() {
        assert_eq!(found("Whoever reads; who waits for who"), [(0, "Whoever"), (0, "who waits"), (0, "for who")]);
        assert_eq!(found("nobody, and Everybody"), [(1, "nobody"), (1, "Everybody")]);
        assert_eq!(found("after so long, so many records"), [(2, "so long"), (2, "so many")]);
        assert_eq!(found("Has the list refreshed. Have it do so."), [(3, "Has the"), (3, "Have it")]);
        assert_eq!(
            found("anew but for what goes on no more"),
            [(4, "anew"), (4, "but for"), (4, "goes on"), (4, "no more")]
        );
        assert_eq!(found("it tells what it was told"), [(5, "tells"), (5, "told")]);
        assert_eq!(
            found("What is new: what the log has. What a reader is"),
            [(6, "What is"), (6, "what the log has"), (6, "What a reader is")]
        );
        assert_eq!(
            found("it lets go of what comes to it, goes by it and is taken in"),
            [(7, "lets go"), (7, "comes to"), (7, "goes by"), (7, "taken in")]
        );
        assert_eq!(found("it is looked for, and can be had"), [(8, "it is looked"), (8, "is looked"), (8, "be had")]);
        assert_eq!(found("so it is read, for it may be new"), [(9, "for it may")]);
    }

    #[test]
    fn plain_words_are_not() {
        for plain in [
            "the client, which reads, knows whose turn it is",
            "a user who reads the page",
            "so many that it fails, so long as it runs",
            "The writer has the lock. It has a list.",
            "go only by day; no moreover",
            "the teller retold",
            "say what is new",
            "it comes, to be read; let it go",
            "it was looked up; hadn't be",
            "wait for it, for example; look, for what follows. It is",
        ] {
            assert_eq!(found(plain), [], "{plain}");
        }
    }
}
