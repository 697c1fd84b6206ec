//! Both control machines against each other, over an in-memory network and in virtual time (C-1 to C-5).

mod ending;
mod hostile;
mod joining;
mod living;
mod net;
