//! The border to Python: nothing that panics behind it ends a thread, or the process.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A panic becomes a RuntimeError, which ends one connection; pyo3's own PanicException is no Exception, and would pass
/// by whoever handles those. Every function that Python calls does its work in here.
#[inline]
pub fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(PyRuntimeError::new_err("the compiled core panicked; what it said is on stderr")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error() {
        assert_eq!(guarded(|| Ok(7)).ok(), Some(7));
        let nothing: &[u8] = &[];
        assert!(guarded(|| Ok(nothing[std::hint::black_box(3)])).is_err());
    }
}
