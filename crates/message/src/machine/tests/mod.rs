mod cases;
mod model;
mod random;
mod world;
