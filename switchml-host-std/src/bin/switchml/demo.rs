mod exact;
pub(crate) mod input;
