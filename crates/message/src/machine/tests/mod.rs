mod cases;
mod hostile;
mod model;
mod random;
mod streams;
mod world;
