//! Results that the tests of several modules begin with.

use scenario::Case;
use scenario::results::{CaseResult, Figures};

/// The first repetition of a case, that went as it should, with its figures.
pub(crate) fn case_with(settings: Case, figures: Option<Figures>) -> CaseResult {
    CaseResult { figures, ..CaseResult::new(settings, 1, 1) }
}
