//! std adapter.
