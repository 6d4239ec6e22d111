-- The questions for DuckDB. A name may occur twice: both phrasings must give the same answer, the faster one counts.
-- Every node table has a column id that edges refer to (see duckdb_engine.py) beside its own key.

-- q1 join
SELECT p.handle, count(*) AS followers FROM follows f JOIN person p ON p.id = f.dst
GROUP BY p.handle ORDER BY followers DESC, p.handle LIMIT 3

-- q1 count first
WITH counted AS (SELECT dst, count(*) AS followers FROM follows GROUP BY dst)
SELECT p.handle, followers FROM counted JOIN person p ON p.id = dst ORDER BY followers DESC, p.handle LIMIT 3

-- q2
WITH counted AS (SELECT dst, count(*) AS followers FROM follows GROUP BY dst),
first AS (SELECT p.id FROM counted JOIN person p ON p.id = dst ORDER BY followers DESC, p.handle LIMIT 1)
SELECT c.slug FROM first JOIN lives_in l ON l.src = first.id JOIN city c ON c.id = l.dst

-- q3
SELECT c.slug, avg(p.age) AS age FROM person p JOIN lives_in l ON l.src = p.id JOIN city c ON c.id = l.dst
JOIN in_state i ON i.src = c.id JOIN in_country n ON n.src = i.dst JOIN country k ON k.id = n.dst
WHERE k.name = $country GROUP BY c.slug ORDER BY age, c.slug LIMIT 5

-- q4
SELECT k.name, count(*) AS persons FROM person p JOIN lives_in l ON l.src = p.id
JOIN in_state i ON i.src = l.dst JOIN in_country n ON n.src = i.dst JOIN country k ON k.id = n.dst
WHERE p.age BETWEEN $young AND $old GROUP BY k.name ORDER BY persons DESC, k.name LIMIT 3

-- q5
SELECT count(*) FROM person p JOIN lives_in l ON l.src = p.id JOIN city c ON c.id = l.dst
JOIN has_interest h ON h.src = p.id JOIN interest i ON i.id = h.dst
WHERE p.gender = $gender AND c.slug = $city AND i.name = $interest

-- q6
SELECT c.slug, count(*) AS persons FROM person p JOIN lives_in l ON l.src = p.id JOIN city c ON c.id = l.dst
JOIN has_interest h ON h.src = p.id JOIN interest i ON i.id = h.dst
WHERE p.gender = $gender AND i.name = $interest GROUP BY c.slug ORDER BY persons DESC, c.slug LIMIT 1

-- q7
SELECT s.slug, count(*) AS persons FROM person p JOIN lives_in l ON l.src = p.id JOIN in_state t ON t.src = l.dst
JOIN state s ON s.id = t.dst JOIN has_interest h ON h.src = p.id JOIN interest i ON i.id = h.dst
WHERE p.age BETWEEN $young AND $old AND i.name = $interest
GROUP BY s.slug ORDER BY persons DESC, s.slug LIMIT 1

-- q8 join
SELECT count(*) FROM follows f JOIN follows g ON g.src = f.dst

-- q8 product of degrees
WITH incoming AS (SELECT dst AS id, count(*) AS n FROM follows GROUP BY dst),
outgoing AS (SELECT src AS id, count(*) AS n FROM follows GROUP BY src)
SELECT CAST(sum(incoming.n * outgoing.n) AS BIGINT) FROM incoming JOIN outgoing USING (id)

-- q9 join
SELECT count(*) FROM follows f JOIN person b ON b.id = f.dst JOIN follows g ON g.src = b.id JOIN person c ON c.id = g.dst
WHERE b.age < $young AND c.age > $old

-- q9 product of degrees
WITH incoming AS (SELECT dst AS id, count(*) AS n FROM follows GROUP BY dst),
outgoing AS (SELECT src AS id, count(*) AS n FROM follows JOIN person c ON c.id = dst WHERE c.age > $old GROUP BY src)
SELECT CAST(sum(incoming.n * outgoing.n) AS BIGINT) FROM incoming JOIN outgoing USING (id) JOIN person b USING (id)
WHERE b.age < $young

-- lookup
SELECT name, age, gender FROM person WHERE handle = $handle

-- hop1
SELECT DISTINCT b.handle FROM follows f JOIN person b ON b.id = f.dst
WHERE f.src = (SELECT id FROM person WHERE handle = $handle)

-- hop1 two queries
SELECT id AS start FROM person WHERE handle = $handle
-- then
SELECT DISTINCT b.handle FROM follows f JOIN person b ON b.id = f.dst WHERE f.src = $start

-- hop2
WITH one AS (SELECT DISTINCT dst FROM follows WHERE src = (SELECT id FROM person WHERE handle = $handle)),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst)
SELECT p.handle FROM two JOIN person p ON p.id = two.dst

-- hop2 two queries
SELECT id AS start FROM person WHERE handle = $handle
-- then
WITH one AS (SELECT DISTINCT dst FROM follows WHERE src = $start),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst)
SELECT p.handle FROM two JOIN person p ON p.id = two.dst

-- hop3
WITH one AS (SELECT DISTINCT dst FROM follows WHERE src = (SELECT id FROM person WHERE handle = $handle)),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst),
three AS (SELECT DISTINCT f.dst FROM follows f JOIN two ON f.src = two.dst)
SELECT p.handle FROM three JOIN person p ON p.id = three.dst

-- hop3 two queries
SELECT id AS start FROM person WHERE handle = $handle
-- then
WITH one AS (SELECT DISTINCT dst FROM follows WHERE src = $start),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst),
three AS (SELECT DISTINCT f.dst FROM follows f JOIN two ON f.src = two.dst)
SELECT p.handle FROM three JOIN person p ON p.id = three.dst

-- many1
WITH start AS (SELECT id FROM person WHERE handle IN (SELECT unnest($handles))),
one AS (SELECT DISTINCT dst FROM follows f JOIN start ON f.src = start.id)
SELECT p.handle FROM one JOIN person p ON p.id = one.dst

-- many2
WITH start AS (SELECT id FROM person WHERE handle IN (SELECT unnest($handles))),
one AS (SELECT DISTINCT f.dst FROM follows f JOIN start ON f.src = start.id),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst)
SELECT p.handle FROM two JOIN person p ON p.id = two.dst

-- many3
WITH start AS (SELECT id FROM person WHERE handle IN (SELECT unnest($handles))),
one AS (SELECT DISTINCT f.dst FROM follows f JOIN start ON f.src = start.id),
two AS (SELECT DISTINCT f.dst FROM follows f JOIN one ON f.src = one.dst),
three AS (SELECT DISTINCT f.dst FROM follows f JOIN two ON f.src = two.dst)
SELECT p.handle FROM three JOIN person p ON p.id = three.dst
