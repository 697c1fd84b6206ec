mod exact;
mod input;
