// The questions for Ladybug. A name may occur twice: both phrasings must give the same answer, the faster one counts.

// q1
MATCH (a:Person)-[:Follows]->(p:Person)
RETURN p.handle, count(*) AS followers ORDER BY followers DESC, p.handle LIMIT 3

// q1 count per id
MATCH (a:Person)-[:Follows]->(p:Person) WITH p, count(*) AS followers
RETURN p.handle, followers ORDER BY followers DESC, p.handle LIMIT 3

// q2
MATCH (a:Person)-[:Follows]->(p:Person) WITH p, count(*) AS followers ORDER BY followers DESC, p.handle LIMIT 1
MATCH (p)-[:LivesIn]->(c:City) RETURN c.slug

// q2 two queries
MATCH (a:Person)-[:Follows]->(p:Person) WITH p, count(*) AS followers
RETURN p.handle AS handle ORDER BY followers DESC, handle LIMIT 1
// then
MATCH (p:Person {handle: $handle})-[:LivesIn]->(c:City) RETURN c.slug

// q3
MATCH (p:Person)-[:LivesIn]->(c:City)-[:InState]->(s:State)-[:InCountry]->(k:Country {name: $country})
RETURN c.slug, avg(p.age) AS age ORDER BY age, c.slug LIMIT 5

// q4
MATCH (p:Person)-[:LivesIn]->(c:City)-[:InState]->(s:State)-[:InCountry]->(k:Country)
WHERE p.age >= $young AND p.age <= $old
RETURN k.name, count(*) AS persons ORDER BY persons DESC, k.name LIMIT 3

// q5
MATCH (i:Interest {name: $interest})<-[:HasInterest]-(p:Person {gender: $gender})-[:LivesIn]->(c:City {slug: $city})
RETURN count(*)

// q6
MATCH (i:Interest {name: $interest})<-[:HasInterest]-(p:Person {gender: $gender})-[:LivesIn]->(c:City)
RETURN c.slug, count(*) AS persons ORDER BY persons DESC, c.slug LIMIT 1

// q7
MATCH (i:Interest {name: $interest})<-[:HasInterest]-(p:Person)-[:LivesIn]->(c:City)-[:InState]->(s:State)
WHERE p.age >= $young AND p.age <= $old
RETURN s.slug, count(*) AS persons ORDER BY persons DESC, s.slug LIMIT 1

// q8
MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN count(*)

// q8 product of degrees
MATCH (a:Person)-[:Follows]->(b:Person) WITH b, count(*) AS followers
MATCH (b)-[:Follows]->(c:Person) WITH b, followers, count(*) AS followed
RETURN CAST(sum(followers * followed) AS INT64)

// q9
MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE b.age < $young AND c.age > $old RETURN count(*)

// q9 product of degrees
MATCH (a:Person)-[:Follows]->(b:Person) WHERE b.age < $young WITH b, count(*) AS followers
MATCH (b)-[:Follows]->(c:Person) WHERE c.age > $old WITH b, followers, count(*) AS followed
RETURN CAST(sum(followers * followed) AS INT64)

// lookup
MATCH (p:Person {handle: $handle}) RETURN p.name, p.age, p.gender

// hop1
MATCH (a:Person {handle: $handle})-[:Follows]->(b:Person) RETURN DISTINCT b.handle

// hop2
MATCH (a:Person {handle: $handle})-[:Follows]->(b:Person)-[:Follows]->(c:Person) RETURN DISTINCT c.handle

// hop2 step by step
MATCH (a:Person {handle: $handle})-[:Follows]->(b:Person) WITH DISTINCT b
MATCH (b)-[:Follows]->(c:Person) WITH DISTINCT c RETURN c.handle

// hop3
MATCH (a:Person {handle: $handle})-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(d:Person)
RETURN DISTINCT d.handle

// hop3 step by step
MATCH (a:Person {handle: $handle})-[:Follows]->(b:Person) WITH DISTINCT b
MATCH (b)-[:Follows]->(c:Person) WITH DISTINCT c
MATCH (c)-[:Follows]->(d:Person) WITH DISTINCT d RETURN d.handle

// many1
UNWIND $handles AS handle MATCH (a:Person)-[:Follows]->(b:Person) WHERE a.handle = handle
RETURN DISTINCT b.handle

// many1 step by step
UNWIND $handles AS handle MATCH (a:Person) WHERE a.handle = handle WITH a
MATCH (a)-[:Follows]->(b:Person) WITH DISTINCT b RETURN b.handle

// many2
UNWIND $handles AS handle MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person) WHERE a.handle = handle
RETURN DISTINCT c.handle

// many2 step by step
UNWIND $handles AS handle MATCH (a:Person) WHERE a.handle = handle WITH a
MATCH (a)-[:Follows]->(b:Person) WITH DISTINCT b
MATCH (b)-[:Follows]->(c:Person) WITH DISTINCT c RETURN c.handle

// many3
UNWIND $handles AS handle
MATCH (a:Person)-[:Follows]->(b:Person)-[:Follows]->(c:Person)-[:Follows]->(d:Person) WHERE a.handle = handle
RETURN DISTINCT d.handle

// many3 step by step
UNWIND $handles AS handle MATCH (a:Person) WHERE a.handle = handle WITH a
MATCH (a)-[:Follows]->(b:Person) WITH DISTINCT b
MATCH (b)-[:Follows]->(c:Person) WITH DISTINCT c
MATCH (c)-[:Follows]->(d:Person) WITH DISTINCT d RETURN d.handle
