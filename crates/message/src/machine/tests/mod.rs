mod cases;
mod world;
