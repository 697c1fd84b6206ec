mod octets;
mod properties;
mod refused;
