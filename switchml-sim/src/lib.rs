//! Simulates SwitchML: see the modules.
