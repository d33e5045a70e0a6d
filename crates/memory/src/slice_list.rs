//! A list of slices, as its owner holds it.

use core::fmt;
use std::sync::Arc;

use weft_base::Slice;
use weft_lock::RwLock;

use crate::table::Table;

/// Up to [`MAX_LISTED`](weft_base::MAX_LISTED) slices under the name of one: work requests take [`SliceList::slice`] as
/// they take a slice of a region, and read or write all of them, one behind the other. It may be used in any number of
/// requests; those that are in flight keep it when it is dropped.
///
/// No peer can be given access to a list.
pub struct SliceList {
    table: Arc<RwLock<Table>>,
    whole: Slice,
}

impl SliceList {
    pub(crate) fn new(table: &Arc<RwLock<Table>>, whole: Slice) -> Self {
        Self { table: Arc::clone(table), whole }
    }

    /// All of it, as one slice. [`Slice::part`] gives parts.
    #[must_use]
    pub const fn slice(&self) -> Slice {
        self.whole
    }
}

impl Drop for SliceList {
    fn drop(&mut self) {
        self.table.write().detach_list(self.whole.region);
    }
}

impl fmt::Debug for SliceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SliceList").field("whole", &self.whole).finish_non_exhaustive()
    }
}
