"""The schema of the worked examples: a library of papers."""

LIBRARY = """\
// library of papers
interface Titled {
    title: String @index
}
node Paper implements Titled {
    doi: String @key
    year: I32
    score: F64?
    state: enum(draft, in-review, final)
    keywords: [String]?
    scan: Blob?
    vec: Vector(4)? @embed("title", model="acme/embed-1") @index
    @range(year, 1900..2100)
    @range(score, 0.0..1.0)
    @check(doi, "^10[.][0-9]+/")
}
node Author @description("A writer") {
    first: String
    last: String
    born: Date?
    @key(last, first)
}
edge WrittenBy: Paper -> Author @card(1..3) {
    position: U32?
    @unique(src, dst)
}
edge Cites: Paper -> Paper
"""
