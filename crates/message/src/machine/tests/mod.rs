mod cases;
mod far;
mod floods;
mod hostile;
mod model;
mod random;
mod streams;
mod world;
