mod cases;
mod floods;
mod hostile;
mod model;
mod random;
mod streams;
mod world;
