//! A scan with the values of its filters.
//!
//! The bounds that are read from a request contain each value that SQLite would accept. They may
//! contain more, because SQLite converts values in comparisons: text that looks like a number
//! equals that number in an integer column.

use crate::table::FilterOp;
use crate::value::SqlValue;

/// A filter with its values: one, or those of an `IN`.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanFilter {
    /// The column.
    pub column: usize,
    /// The comparison.
    pub op: FilterOp,
    /// The values.
    pub values: Vec<SqlValue>,
}

/// The columns that a statement reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnSet(pub(crate) u64);

impl ColumnSet {
    /// Every column.
    pub const ALL: ColumnSet = ColumnSet(u64::MAX);

    /// Returns whether the statement reads the column.
    pub fn has(self, column: usize) -> bool {
        self.0 & 1 << column.min(63) != 0
    }

    /// Returns the value of a column that the statement reads, and `NULL` for another one.
    pub fn value<V: Into<SqlValue>>(self, column: usize, value: impl FnOnce() -> V) -> SqlValue {
        if self.has(column) { value().into() } else { SqlValue::Null }
    }
}

/// The scan that a statement asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanRequest {
    /// The filters, joined by AND.
    pub filters: Vec<ScanFilter>,
    /// The columns that the statement reads.
    pub columns: ColumnSet,
    /// Whether the rows come in descending order, if the scan is ordered.
    pub is_descending: bool,
}

/// The integers that the filters of a column leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntegerBounds {
    /// The least one.
    pub min: i64,
    /// The largest one.
    pub max: i64,
    /// The only ones, ascending, if a filter lists them.
    pub list: Option<Vec<i64>>,
}

impl IntegerBounds {
    /// Returns whether any integer is left out.
    pub fn narrows(&self) -> bool {
        *self != IntegerBounds { min: i64::MIN, max: i64::MAX, list: None }
    }
}

impl ScanRequest {
    fn of(&self, column: usize) -> impl Iterator<Item = &ScanFilter> {
        self.filters.iter().filter(move |filter| filter.column == column)
    }

    /// Returns the integers that the filters of an integer column leave; `None` when they leave
    /// nothing.
    pub fn integers(&self, column: usize) -> Option<IntegerBounds> {
        let mut bounds = IntegerBounds { min: i64::MIN, max: i64::MAX, list: None };
        for filter in self.of(column) {
            match (filter.op, &filter.values[..]) {
                (FilterOp::Equal, values) => {
                    let listed: Option<Vec<Option<i64>>> = values.iter().map(equal_integer).collect();
                    // A value that SQLite converts first narrows nothing.
                    let Some(listed) = listed else { continue };
                    let mut listed: Vec<i64> = listed.into_iter().flatten().collect();
                    listed.sort_unstable();
                    listed.dedup();
                    bounds.list = Some(match bounds.list.take() {
                        Some(earlier) => earlier.into_iter().filter(|number| listed.contains(number)).collect(),
                        None => listed,
                    });
                }
                (_, [SqlValue::Null]) => return None,
                (FilterOp::Greater, [value]) => bounds.min = bounds.min.max(above(value)?),
                (FilterOp::GreaterOrEqual, [value]) => bounds.min = bounds.min.max(from(value)),
                (FilterOp::Less, [value]) => bounds.max = bounds.max.min(below(value)?),
                (FilterOp::LessOrEqual, [value]) => bounds.max = bounds.max.min(up_to(value)),
                _ => {}
            }
        }
        if let Some(list) = &mut bounds.list {
            list.retain(|number| (bounds.min..=bounds.max).contains(number));
            bounds.min = *list.first()?;
            bounds.max = *list.last()?;
        }
        (bounds.min <= bounds.max).then_some(bounds)
    }

    /// Returns the texts to which `=` and `IN` limit a text column; `None` when they limit
    /// nothing. An empty list leaves nothing.
    pub fn texts(&self, column: usize) -> Option<Vec<String>> {
        let mut left: Option<Vec<String>> = None;
        for filter in self.of(column).filter(|filter| filter.op == FilterOp::Equal) {
            let text = |value: &SqlValue| match value {
                SqlValue::Text(text) => Some(Some(text.clone())),
                SqlValue::Null => Some(None),
                _ => None,
            };
            let listed: Option<Vec<Option<String>>> = filter.values.iter().map(text).collect();
            let Some(listed) = listed else { continue };
            let mut listed: Vec<String> = listed.into_iter().flatten().collect();
            listed.sort_unstable();
            listed.dedup();
            left = Some(match left.take() {
                Some(earlier) => earlier.into_iter().filter(|text| listed.contains(text)).collect(),
                None => listed,
            });
        }
        left
    }

    /// Returns the patterns of `MATCH` for a column.
    ///
    /// # Errors
    /// When a pattern is not text.
    pub fn patterns(&self, column: usize) -> Result<Vec<String>, String> {
        let patterns = self.of(column).filter(|filter| filter.op == FilterOp::Match);
        let text = |filter: &ScanFilter| match &filter.values[..] {
            [SqlValue::Text(pattern)] => Ok(pattern.clone()),
            other => Err(format!("MATCH takes text, not {other:?}")),
        };
        patterns.map(text).collect()
    }
}

/// Returns the integer that equals a value, `Some(None)` when none does, and `None` for a value
/// that SQLite may convert first.
fn equal_integer(value: &SqlValue) -> Option<Option<i64>> {
    match *value {
        SqlValue::Integer(number) => Some(Some(number)),
        SqlValue::Real(number) if number.fract() == 0.0 && number.abs() < MAX_EXACT => Some(Some(number as i64)),
        SqlValue::Real(number) if number.abs() < MAX_EXACT => Some(None),
        SqlValue::Null => Some(None),
        _ => None,
    }
}

/// Below this bound, each integer is a floating-point number.
const MAX_EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the least integer above a value; `None` when there is none.
fn above(value: &SqlValue) -> Option<i64> {
    match *value {
        SqlValue::Integer(number) => number.checked_add(1),
        SqlValue::Real(number) if number.abs() < MAX_EXACT => Some(number.floor() as i64 + 1),
        _ => Some(i64::MIN),
    }
}

/// Returns the least integer from a value on.
fn from(value: &SqlValue) -> i64 {
    match *value {
        SqlValue::Integer(number) => number,
        SqlValue::Real(number) if number.abs() < MAX_EXACT => number.ceil() as i64,
        _ => i64::MIN,
    }
}

/// Returns the largest integer below a value; `None` when there is none.
fn below(value: &SqlValue) -> Option<i64> {
    match *value {
        SqlValue::Integer(number) => number.checked_sub(1),
        SqlValue::Real(number) if number.abs() < MAX_EXACT => Some(number.ceil() as i64 - 1),
        _ => Some(i64::MAX),
    }
}

/// Returns the largest integer up to a value.
fn up_to(value: &SqlValue) -> i64 {
    match *value {
        SqlValue::Integer(number) => number,
        SqlValue::Real(number) if number.abs() < MAX_EXACT => number.floor() as i64,
        _ => i64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(filters: &[(FilterOp, &[SqlValue])]) -> ScanRequest {
        let filter =
            |(op, values): &(FilterOp, &[SqlValue])| ScanFilter { column: 0, op: *op, values: values.to_vec() };
        ScanRequest { filters: filters.iter().map(filter).collect(), columns: ColumnSet::ALL, is_descending: false }
    }

    fn bounds(filters: &[(FilterOp, &[SqlValue])]) -> Option<(i64, i64, Option<Vec<i64>>)> {
        request(filters).integers(0).map(|bounds| (bounds.min, bounds.max, bounds.list))
    }

    #[test]
    fn bounds_hold_each_integer_that_compares_as_sqlite_does() {
        use FilterOp::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        let int = SqlValue::Integer;
        let text = || SqlValue::from("abc");
        assert_eq!(bounds(&[]), Some((i64::MIN, i64::MAX, None)));
        assert_eq!(bounds(&[(Greater, &[SqlValue::Real(1.5)]), (LessOrEqual, &[int(9)])]), Some((2, 9, None)));
        assert_eq!(bounds(&[(Less, &[SqlValue::Real(1.5)])]), Some((i64::MIN, 1, None)));
        assert_eq!(bounds(&[(Less, &[SqlValue::Real(2.0)])]), Some((i64::MIN, 1, None)));
        assert_eq!(bounds(&[(Less, &[SqlValue::Real(1e300)])]), Some((i64::MIN, i64::MAX, None)));
        assert_eq!(bounds(&[(Greater, &[int(i64::MAX)])]), None);
        assert_eq!(bounds(&[(Less, &[int(i64::MIN)])]), None);
        assert_eq!(bounds(&[(GreaterOrEqual, &[int(5)]), (LessOrEqual, &[int(4)])]), None);
        assert_eq!(bounds(&[(Greater, &[SqlValue::Null])]), None);
        assert_eq!(bounds(&[(Equal, &[SqlValue::Null])]), None);
        assert_eq!(bounds(&[(Equal, &[SqlValue::Real(1.5)])]), None);
        assert_eq!(bounds(&[(Equal, &[SqlValue::Real(3.0)])]), Some((3, 3, Some(vec![3]))));
        assert_eq!(bounds(&[(Greater, &[text()])]), Some((i64::MIN, i64::MAX, None)));
        assert_eq!(bounds(&[(Equal, &[int(1), text()])]), Some((i64::MIN, i64::MAX, None)));
        let listed = [int(7), int(2), int(7), SqlValue::Null, int(40)];
        assert_eq!(bounds(&[(Equal, &listed), (Less, &[int(10)])]), Some((2, 7, Some(vec![2, 7]))));
    }

    #[test]
    fn texts_are_limited_by_text_only() {
        use FilterOp::Equal;
        let (a, b) = (SqlValue::from("a"), SqlValue::from("b"));
        assert_eq!(request(&[]).texts(0), None);
        assert_eq!(request(&[(Equal, &[SqlValue::Integer(5)])]).texts(0), None);
        assert_eq!(request(&[(Equal, &[SqlValue::Null])]).texts(0), Some(vec![]));
        assert_eq!(request(&[(Equal, &[b.clone(), a.clone()])]).texts(0), Some(vec!["a".into(), "b".into()]));
        assert_eq!(request(&[(Equal, &[b.clone(), a]), (Equal, &[b])]).texts(0), Some(vec!["b".into()]));
    }

    #[test]
    fn a_pattern_is_text() {
        let both = request(&[(FilterOp::Match, &[SqlValue::from("x y")]), (FilterOp::Equal, &[SqlValue::Null])]);
        assert_eq!(both.patterns(0), Ok(vec!["x y".to_owned()]));
        assert!(request(&[(FilterOp::Match, &[SqlValue::Integer(1)])]).patterns(0).is_err());
    }
}
