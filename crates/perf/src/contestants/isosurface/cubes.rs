//! Which triangles a cube has, by which of its corners are inside: the table of marching cubes (Lorensen and Cline,
//! SIGGRAPH 1987), made at the start instead of written down.
//!
//! On each face the surface goes from the edge where a walk around the face enters what is inside to the edge where it
//! leaves that again. So where two opposite corners of a face are inside, each has a line of its own, whichever of the
//! two cubes the face is seen from: the surface has no hole. The lines of all faces form loops, and each loop is cut
//! into triangles from its first corner.

/// Corners of a cube: bit 0 is x, bit 1 is y, bit 2 is z.
const CORNERS: usize = 8;
/// Edges of a cube, by [`edge`].
const EDGES: usize = 12;

/// Corners of each face, counter-clockwise from outside.
const FACES: [[usize; 4]; 6] = [[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]];

/// An edge: the lower of its corners, and the axis that it goes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edge {
    pub(super) low: usize,
    pub(super) axis: usize,
}

/// Triangles by which corners are inside, a bit for each.
pub(super) struct Table(Vec<Vec<[Edge; 3]>>);

impl Table {
    pub(super) fn new() -> Self {
        Self((0..1 << CORNERS).map(triangles).collect())
    }

    pub(super) fn of(&self, inside: usize) -> &[[Edge; 3]] {
        &self.0[inside]
    }
}

fn triangles(inside: usize) -> Vec<[Edge; 3]> {
    let cut = |around: Vec<Edge>| (1..around.len() - 1).map(move |at| [around[0], around[at], around[at + 1]]);
    loops(inside).into_iter().flat_map(cut).collect()
}

/// Loops of edges that the surface goes through.
fn loops(inside: usize) -> Vec<Vec<Edge>> {
    let mut next = lines(inside);
    let mut loops = Vec::new();
    for first in 0..EDGES {
        let (mut around, mut at) = (Vec::new(), first);
        while let Some(following) = next[at].take() {
            around.push(edge_at(at));
            at = following;
        }
        if !around.is_empty() {
            loops.push(around);
        }
    }
    loops
}

/// For each edge that the surface crosses the one that it crosses next. Each such edge is of two faces: in one of them
/// the walk enters by it, in the other it leaves.
fn lines(inside: usize) -> [Option<usize>; EDGES] {
    let is_inside = |corner: usize| inside >> corner & 1 == 1;
    let mut next = [None; EDGES];
    for face in FACES {
        let corner = |at: usize| face[at % face.len()];
        for at in 0..face.len() {
            if is_inside(corner(at)) || !is_inside(corner(at + 1)) {
                continue;
            }
            let mut last = at + 1;
            while is_inside(corner(last + 1)) {
                last += 1;
            }
            next[edge(corner(at), corner(at + 1))] = Some(edge(corner(last), corner(last + 1)));
        }
    }
    next
}

/// The number of the edge between two corners: four along each axis.
fn edge(one: usize, other: usize) -> usize {
    let (axis, low) = ((one ^ other).trailing_zeros() as usize, one & other);
    let before = low & ((1 << axis) - 1);
    axis * 4 + (low >> (axis + 1) << axis | before)
}

/// The edge with this number.
fn edge_at(number: usize) -> Edge {
    let (axis, rest) = (number / 4, number % 4);
    let before = rest & ((1 << axis) - 1);
    Edge { low: rest >> axis << (axis + 1) | before, axis }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_of_one_edge_each() {
        for number in 0..EDGES {
            let Edge { low, axis } = edge_at(number);
            assert_eq!(low >> axis & 1, 0, "the lower corner");
            assert_eq!(edge(low, low | 1 << axis), number);
            assert_eq!(edge(low | 1 << axis, low), number);
        }
    }

    #[test]
    fn each_edge_that_is_crossed_is_in_one_loop() {
        for inside in 0..1 << CORNERS {
            let is_crossed = |number: &usize| {
                let Edge { low, axis } = edge_at(*number);
                (inside >> low ^ inside >> (low | 1 << axis)) & 1 == 1
            };
            let crossed: Vec<usize> = (0..EDGES).filter(is_crossed).collect();
            let mut found: Vec<usize> =
                loops(inside).concat().into_iter().map(|it| edge(it.low, it.low | 1 << it.axis)).collect();
            found.sort_unstable();
            assert_eq!(found, crossed, "{inside:08b}");
            assert!(loops(inside).iter().all(|around| around.len() >= 3), "{inside:08b}");
        }
    }

    #[test]
    fn known_cubes_have_their_triangles() {
        let count = |inside: usize| triangles(inside).len();
        assert_eq!([0, 255].map(count), [0, 0]);
        assert_eq!([0b1, 0b1000_0000, !0b1 & 255].map(count), [1, 1, 1], "one corner, or all but one");
        assert_eq!(count(0b11), 2, "an edge");
        assert_eq!(count(0b1111), 2, "a face");
        assert_eq!(count(0b1001), 2, "two corners across a face have a triangle each");
        assert_eq!(count(0b0110_1001), 4, "every other corner");
    }
}
