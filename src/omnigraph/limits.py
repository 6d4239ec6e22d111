"""The limits of OmniGraph: settings, limits that a request can meet, and sizes that several modules share.

Nothing here is read from a file. Settings are functions that read an environment variable when they are needed, so that
a test or a service can set them late. A size that one module uses stands in that module. docs/configuration.md lists
the settings and the limits that a request can meet, with unit, default and reason.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # type checkers take it for true; `typing` itself would double what `omnigraph version` costs
if TYPE_CHECKING:
    from typing import Final

# --- Versions of the format

#: Stamp of the on-disk layout that this software writes and reads.
INTERNAL_SCHEMA_VERSION: Final = 3

# --- Settings: environment variables


def lock_timeout_seconds() -> float:
    """How long a writer waits for the commit section (``OMNIGRAPH_LOCK_TIMEOUT``). A section lasts milliseconds."""
    return float(os.environ.get("OMNIGRAPH_LOCK_TIMEOUT", "60"))


def lease_seconds() -> float:
    """How long a lease on an object store lasts without renewal (``OMNIGRAPH_LEASE_SECONDS``).

    Longer than any stall of a healthy process, short enough that a crashed host blocks its branch only briefly.
    """
    return float(os.environ.get("OMNIGRAPH_LEASE_SECONDS", "20"))


def hold_seconds() -> float:
    """How long a lease on an old state, or a claim on staged files, lasts without renewal (``OMNIGRAPH_HOLD_SECONDS``).

    A reader that is stopped for longer may find its state cleaned up.
    """
    return float(os.environ.get("OMNIGRAPH_HOLD_SECONDS", "600"))


def metadata_cache_bytes() -> int:
    """What Lance remembers of versions and of the footers of files, per open graph (``OMNIGRAPH_METADATA_BYTES``).

    A commit leaves about 30 kB of it behind that nobody asks for again. A footer takes about 4 kB; a graph on an object
    store with many thousands of data files is faster with more.
    """
    return int(os.environ.get("OMNIGRAPH_METADATA_BYTES", 16 * 1024**2))


def fsync_enabled() -> bool:
    """Local commits are synced to the disk unless ``OMNIGRAPH_FSYNC=0``."""
    return os.environ.get("OMNIGRAPH_FSYNC", "1") != "0"


def engine_cache_bytes() -> int:
    """Memory that queries may keep between each other (``OMNIGRAPH_CACHE_BYTES``); a quarter of the machine's."""
    given = os.environ.get("OMNIGRAPH_CACHE_BYTES")
    if given:
        return int(given)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def query_bytes() -> int:
    """Memory for bindings and values of one query (``OMNIGRAPH_QUERY_BYTES``); a quarter of the machine's.

    A step that would take more is refused before it begins.
    """
    given = os.environ.get("OMNIGRAPH_QUERY_BYTES")
    if given:
        return int(given)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4


def external_blob_bases() -> str:
    """The addresses below which blobs may lie outside of a graph (``OMNIGRAPH_EXTERNAL_BLOBS``); none by default."""
    return os.environ.get("OMNIGRAPH_EXTERNAL_BLOBS", "")


# --- Limits that a request can meet

# names

#: Longest branch name, in bytes.
BRANCH_NAME_BYTES: Final = 128

#: Longest actor id, in bytes.
ACTOR_BYTES: Final = 256

#: Longest message of a commit, in bytes. Every reader of a branch reads those of its newest commits.
COMMIT_MESSAGE_BYTES: Final = 4_096

#: Longest policy file, and longest file of cases for one, in bytes. They are written by people.
POLICY_BYTES: Final = 256 * 1024

# writes

#: Row data that one `update` may read, in bytes. All of it is held in memory until the commit.
MUTATION_BYTES: Final = 2 * 1024**3

#: Longest address of an external blob, in bytes.
BLOB_URI_BYTES: Final = 65_536

#: Bytes at one address that a write copies into the graph. They are held as a whole.
EXTERNAL_BLOB_BYTES: Final = 32 * 1024**2

# loads

#: Longest line of a file in the graph dialect, in bytes. A line is one record and is held as a whole.
LOAD_LINE_BYTES: Final = 32 * 1024**2

#: Most delimiters (braces, brackets, commas, colons) on one line. Keeps one record from becoming a million objects.
LOAD_LINE_SLOTS: Final = 131_072

#: Data of one column of one type in one embedded load, in bytes: Arrow's own bound for columns of text.
LOAD_COLUMN_BYTES: Final = 2**31 - 1

#: A load that fails names the first violation of each kind, up to this many.
LOAD_SHOWN_VIOLATIONS: Final = 20

#: A load that is to fail anyway stops looking for further violations after this many bad rows.
LOAD_COUNTED_VIOLATIONS: Final = 100

#: Rows that a load may reject before it gives up, unless the caller says otherwise.
LOAD_MAX_REJECTS: Final = 1_000

#: Characters of a rejected record that are kept; enough to find it again.
LOAD_REJECT_CHARACTERS: Final = 65_536

#: A load that put more rows than this into a table also brings the indexes up to date. Below, look-ups scan faster
#: than an index is built.
LOAD_INDEX_ROWS: Final = 50_000

# embeddings

#: Characters of all texts in one request to an embedding provider; a longer text goes alone.
EMBEDDING_REQUEST_CHARACTERS: Final = 400_000

#: Rows of one commit when the texts of a graph are embedded, unless the caller says otherwise: some seconds of a
#: provider's work, and few enough commits for a large table.
EMBEDDING_COMMIT_ROWS: Final = 1_024

#: Texts that a run of `embed` holds at once, in bytes; on Spark the vectors of as many rows have this size too.
EMBEDDING_TEXT_BYTES: Final = 64 * 1024**2

#: A run of `embed` that may make more vectors than this asks the provider from Spark, if there is one; fewer are made
#: before Spark has started.
SPARK_EMBED_ROWS: Final = 65_536

#: Longest answer of an embedding provider, in bytes. It is held as a whole.
EMBEDDING_ANSWER_BYTES: Final = 64 * 1024**2

# merges

#: Row data that one merge may put into the target, in bytes. All of it is held in memory until the commit.
MERGE_BYTES: Final = 2 * 1024**3

#: Entities of each kind that the JSON form of a merge preview names per type; the counts are complete.
MERGE_SHOWN_ENTITIES: Final = 1_000

# the change feed

#: Changes on one page of the change feed: what it holds unless the caller says otherwise, and the most it may hold.
FEED_PAGE_CHANGES: Final = 1_000
FEED_PAGE_MAX_CHANGES: Final = 8_192

#: Bytes of JSON on one page of the change feed, likewise. A single larger change is sent alone.
FEED_PAGE_BYTES: Final = 4 * 1024**2
FEED_PAGE_MAX_BYTES: Final = 32 * 1024**2

#: Commits that one poll of the change feed walks, likewise.
FEED_COMMITS: Final = 128
FEED_MAX_COMMITS: Final = 512

#: Longest cursor or page token, in characters.
FEED_TOKEN_CHARACTERS: Final = 4_096

# search

#: Different tokens in the text of a `fuzzy`: each one is measured against all tokens of a column.
FUZZY_TOKENS: Final = 1_000

#: Hits that one search across types gives, at most, and places of each ranking that count in it.
SEARCH_HITS: Final = 1_000

#: Edges that a search follows from a hit, at most, and neighbours that it names of each hit.
SEARCH_HOPS: Final = 5
SEARCH_NEIGHBOURS: Final = 20

# results in a notebook and in a shell

#: A notebook shows at most this many rows and columns of a result, and this many characters of a value.
SHOWN_ROWS: Final = 50
SHOWN_COLUMNS: Final = 30
SHOWN_CHARACTERS: Final = 200

#: The text of a result shows this many rows, each in one line of this many characters.
PREVIEW_ROWS: Final = 5
PREVIEW_CHARACTERS: Final = 100

# Spark

#: A merge with more row data than this runs on Spark, if there is one; less is done before Spark has started.
#: Without Spark its rows are read in parts of this size.
SPARK_MERGE_BYTES: Final = 256 * 1024**2

#: Data of one column of a type that the driver of a merge on Spark holds for the rules about rows together, in bytes:
#: Arrow's own bound for columns of text.
MERGE_KEY_BYTES: Final = 2**31 - 1

#: Memory of the JVM of a Spark session on this machine, in MiB: least and most. Rows live in Python and in Lance.
DRIVER_MEMORY_MIB: Final = (512, 8192)

#: Rows that a load looks at closely to find out which of them break a rule together. They are held by the driver.
SETTLED_ROWS: Final = 1_000_000

#: Rows whose keys one DataFrame write checks, about 100 bytes for each: Spark commits it in one process without a
#: session. `omnigraph.spark.load` has no such bound.
SINK_ROWS: Final = 10_000_000

#: Files with more bytes than this together are loaded by Spark, if there is one; less is done before Spark has
#: started.
SPARK_LOAD_BYTES: Final = 32 * 1024**2

#: Upkeep that reads more rows than this, once for each index, runs on Spark, if there is one; less is done before Spark
#: has started.
SPARK_UPKEEP_ROWS: Final = 32 * 1024**2

#: A copy of a graph from or to an object store with more files, or bytes, than this is made by Spark, if there is one.
#: Less is done by one process in minutes.
SPARK_COPY_FILES: Final = 16 * 1024
SPARK_COPY_BYTES: Final = 16 * 1024**3

# --- Tuning: sizes that several modules or a test share

# storage

#: Pause between two publish attempts, in seconds; the real one is random between these.
PUBLISH_BACKOFF_SECONDS: Final = (0.005, 0.05)

#: A write whose base moved is prepared again this often outside the commit section. The next one is prepared inside,
#: where nothing can move, so that a busy branch starves nobody.
REPREPARE_BUDGET: Final = 3

#: Writes that are published together at the most, and rows that one of them may touch: a larger one has a publish of
#: its own, which takes it no longer than the others would wait for it.
GROUP_WRITES: Final = 64
GROUP_WRITE_ROWS: Final = 256

#: So long the writes of a process wait for the one of them that leads. Longer than a publish takes, even on a busy
#: store; a write that takes longer goes on beside the others.
LINE_SECONDS: Final = 1.0

#: Tables made for states between commits (`storage/tables/derived_table.py`) that stay on the disk though nobody has a
#: handle of them, because a scan may still read one.
MADE_TABLES_LEFT: Final = 64

#: A read that has lasted for so many seconds gets a lease: much less than the grace of a cleanup, much more than the
#: reads that are over before a lease would be put.
LASTING_SECONDS: Final = 10.0

#: Pause between two looks at a lease that another writer holds, in seconds: the shortest and the longest.
LEASE_POLL_SECONDS: Final = (0.01, 0.1)

#: A publish merges old fragments of the manifest when it holds more than this many. Each publish adds one.
MANIFEST_FRAGMENTS: Final = 48

#: A fragment of the manifest with at least this many rows is not merged again. What is merged is held in memory, about
#: 1 kB a row, however long the history is.
MANIFEST_FRAGMENT_ROWS: Final = 4_096

#: A publish takes so many rows of the latest commits along into its own fragment, and then leaves no file behind that
#: says which rows of the old one are gone. More would make every reader of the newest state read them.
MANIFEST_RECENT_ROWS: Final = 24

#: A row of a table version with more characters than this is never taken along: the digests of some hundred files.
MANIFEST_RECENT_CHARACTERS: Final = 65_536

#: A vector index is built from this many rows on, with the square root of the rows as partitions. All vectors of a
#: smaller table are measured in a few milliseconds.
VECTOR_INDEX_ROWS: Final = 10_000

#: A write folds the small fragments at the end of a table when there are more than this many. Each costs a look-up
#: about 0.3 ms and a commit about 5 µs.
SMALL_FRAGMENTS: Final = 12

#: A fragment with at most this many rows is small: look-ups remember its ids.
SMALL_FRAGMENT_ROWS: Final = 4_096

#: Rows and bytes that one write folds at most, about 50 ms of work. Larger fragments are left to `optimize`.
FOLD_ROWS: Final = 32_768
FOLD_BYTES: Final = 16 * 1024**2

#: Folding ends with a fragment that has at most this many times the rows of the younger ones, which keeps the rewritten
#: rows per written row logarithmic.
FOLD_RATIO: Final = 4

#: Ids of small fragments that a process keeps, in bytes and in fragments, which take some hundred bytes each however
#: few ids they hold: a look-up of a new id then reads none of them.
KNOWN_ID_BYTES: Final = 32 * 1024**2
KNOWN_ID_FRAGMENTS: Final = 2_048

#: Commits whose rows a graph keeps at hand for the next query, if they have at most so many rows and bytes.
KEPT_EFFECTS: Final = 64
KEPT_EFFECT_ROWS: Final = 1_024
KEPT_EFFECT_BYTES: Final = 256 * 1024

#: Rows of the manifest that are read first by whoever goes back in the history; then twice as many, and so on.
COMMIT_ROWS_AT_A_TIME: Final = 64

#: Rows of an export that become text at a time.
EXPORT_BATCH_ROWS: Final = 16_384

#: Rows of an export that become text at a time when the type has blobs, each of which may be large.
EXPORT_BLOB_BATCH_ROWS: Final = 32

#: Tables with at most this many bytes on disk are sorted in memory by an export. Of larger ones only the ids are, and
#: the rows are fetched in that order.
EXPORT_SORT_BYTES: Final = 256 * 1024**2

#: With more rows than this in rewritten fragments, row-version columns are asked instead where they are exact.
DELTA_REWRITTEN_ROWS: Final = 32_768

#: Row-version columns are trusted over at most this many transactions, because each of them is read first.
DELTA_TRANSACTIONS: Final = 128

#: Rows that one task of a distributed scan reads, if its fragments are not larger. A task costs about 0.1 s by itself.
SCAN_TASK_ROWS: Final = 524_288

#: Rows that `verify` reads at a time.
VERIFY_BATCH_ROWS: Final = 65_536

#: So long a deep `verify` waits for the next rows of a data file, in seconds. Damaged bytes may never give any.
VERIFY_DEEP_SECONDS: Final = 60.0

# history

#: Commits of a branch that a merge walks back to see whether the branch only went on from its target. Behind more of
#: them the whole history of both is looked at.
MERGE_WALK_COMMITS: Final = 256

#: An id with more bytes than this is carried in a page token as its first bytes and a digest.
FEED_TOKEN_ID_BYTES: Final = 256

# engine

#: Edge types with at least this many edges get a topology file; smaller ones are read in no time.
PERSISTED_EDGES: Final = 20_000

# upkeep

#: `optimize` makes fragments so large that a table has about this many, each a cost of every commit; larger tables have
#: more, because a fragment with more than the other number of rows is slow to replace rows in.
FRAGMENTS_PER_TABLE: Final = 64
LARGEST_FRAGMENT_ROWS: Final = 1_048_576

#: Segments of one index that are joined when there are more than this many, each a cost of every look-up; one with so
#: many rows is not joined again.
INDEX_SEGMENTS: Final = 4
INDEX_SEGMENT_ROWS: Final = 4_194_304

#: Rows whose fingerprints `verify` holds at once, 8 bytes each; a larger table is read once per so many rows.
VERIFY_PART_ROWS: Final = 16 * 1024**2

#: How long `verify` looks again before it calls something a problem that a live writer passes through, in seconds
#: between two looks. A commit section lasts milliseconds.
VERIFY_PATIENCE_SECONDS: Final = (0.05, 0.2, 0.75, 1.0)

#: So long a state stays after it was the newest of its branch, in seconds, whatever a cleanup may remove: a query that
#: began on it reads on undisturbed.
CLEANUP_GRACE_SECONDS: Final = 600.0

#: Files that no version of a table names are removed by a cleanup when they are older than this, in seconds. Younger
#: ones may belong to software that does not say what it is writing.
UNFINISHED_FILES_SECONDS: Final = 86_400.0

#: Versions of tables whose files a cleanup looks up at once.
CLEANUP_THREADS: Final = 8

#: Versions that a cleanup leaves of each table with copies of the commits; readers look at the newest alone.
KEPT_COPIES: Final = 3

#: What stays of a graph for which nobody set a retention rule: so many commits of each branch, and what is younger than
#: this, in seconds; and how often its tables are put in order.
RETENTION_KEEP: Final = 1_000
RETENTION_SECONDS: Final = 7 * 86_400
OPTIMIZE_SECONDS: Final = 86_400

#: Runs of `upkeep` that are remembered.
UPKEEP_RUNS: Final = 100

# spark

#: Partitions of a shuffle per core of this machine; Spark's 200 cost more than they bring on a few cores.
SHUFFLES_PER_CORE: Final = 4

#: Most bytes of lines that one task of a load reads.
SPLIT_BYTES: Final = 128 * 1024**2

#: Bytes of rows of one type that a task of a load gathers before it writes them, even if they are few rows.
STAGE_BYTES: Final = 128 * 1024**2

#: Rows whose keys one task of a load looks at.
KEY_TASK_ROWS: Final = 1 << 20

#: So few rows are looked at by the driver itself, with the functions of the tasks: a job would take longer to start.
DRIVER_ROWS: Final = 65_536

#: Keys that break a rule and are looked at closely, per rule and task. Behind them a load has failed anyway.
SUSPECTS: Final = 10_000

#: A table with at most this many rows is sent to every task of a Spark join; larger ones are shuffled.
BROADCAST_ROWS: Final = 50_000

# several rooms

#: A publish that loses its race is tried again this many times after the first attempt.
PUBLISHER_RETRY_BUDGET: Final = 5

#: Rows per fragment of a table. Replacing a row makes Lance read the version columns of its whole fragment, about 2 ms
#: at this size; with Lance's own default of a million it is 15 ms.
FRAGMENT_ROWS: Final = 131_072

#: An id look-up goes through the index while it asks for less than this share of the table; above, one scan is faster.
INDEX_LOOKUP_SHARE: Final = 1 / 16

#: How many open tables a graph keeps at hand, and versions of each.
OPEN_TABLES: Final = 256
OPEN_VERSIONS: Final = 8

#: How many files with blobs of an older Lance a process remembers the nulls of.
OLDER_BLOB_FILES: Final = 256

#: Tables of one write are staged and committed by this many threads.
TABLE_THREADS: Final = 8

#: Rows of a result that become Python objects at a time when it is iterated or written as JSON. Enough to make the
#: work per batch vanish, few enough to stay within some tens of MB.
RESULT_BATCH_ROWS: Final = 8_192

#: Bytes of a file that a load reads and parses at a time; a few of them are in work at once.
LOAD_BLOCK_BYTES: Final = 8 * 1024**2

#: Rows of two states whose images are compared at a time, and their bytes on one side.
DELTA_BATCH_ROWS: Final = 8_192
DELTA_BATCH_BYTES: Final = 8 * 1024**2

#: The same for blobs, each of which may be large.
DELTA_BLOB_BATCH_ROWS: Final = 32

#: So few rows are fetched by a filter on their row ids. For more it pays that Lance makes an index of all row ids,
#: which takes up to 0.2 s per million rows and version.
FILTERED_ROWS: Final = 4_096

#: Rows that are read to learn how large the rows of a table are.
DELTA_SAMPLE_ROWS: Final = 64

#: Names that a hint lists when none resembles the unknown one; more would bury the sentence.
NAMES_LISTED: Final = 8

# ids.py

#: Names that a hint about an unknown one looks at; comparing costs some microseconds each.
NAMES_COMPARED: Final = 2_000

#: Characters of an unknown name that are compared; no name that helps is longer.
NAME_COMPARED_CHARACTERS: Final = 128

#: Decisions that a policy remembers; one is asked for each type of a graph.
POLICY_DECISIONS: Final = 8_192

# server; each can be set in `server.yaml`

#: Bytes of a JSON body, and of one with rows to load, as the HTTP contract says.
JSON_BODY_BYTES: Final = 1024**2
LOAD_BODY_BYTES: Final = 32 * 1024**2

#: Bytes of a body that are kept in memory; the rest of a larger one goes to a temporary file.
BODY_SPOOL_BYTES: Final = 4 * 1024**2

#: Bytes of all headers and of the address of one request.
HEADER_BYTES: Final = 64 * 1024

#: Milliseconds of one query, rows and bytes of its result, unless the server or the request says less.
SERVER_QUERY_MS: Final = 60_000
SERVER_RESULT_ROWS: Final = 5_000_000
SERVER_RESULT_BYTES: Final = 512 * 1024**2

#: Running writes of one actor, and the bytes of their bodies.
ACTOR_WRITES: Final = 16
ACTOR_BODY_BYTES: Final = 4 * 1024**3

#: Threads for writes. They wait in line for a branch together, so more of them make larger groups.
WRITE_THREADS: Final = 64

#: Requests that may wait for a thread, for reads and for writes. More would wait longer than clients do.
WAITING_REQUESTS: Final = 512

#: Answers that are written while they are sent, each on a thread of its own.
STREAM_THREADS: Final = 64

#: Exports of the whole process, and milliseconds that one more waits for a place.
EXPORT_STREAMS: Final = 8
EXPORT_WAIT_MS: Final = 250

#: Bytes of a stream that go to the client at a time, and how many such pieces wait for it.
STREAM_PIECE_BYTES: Final = 64 * 1024
STREAM_PIECES: Final = 8

#: Seconds for a body to arrive, for a client to take the next piece, and for running requests to end on a stop.
BODY_SECONDS: Final = 60
STALL_SECONDS: Final = 60
DRAIN_SECONDS: Final = 30

#: A long body may take longer: a second more for so many bytes. Slower ones are given up.
BODY_BYTES_PER_SECOND: Final = 64 * 1024

#: An answer that is shorter is not compressed.
COMPRESSED_FROM_BYTES: Final = 1024

#: Bytes of a file of tokens, and of the answer of a secret store.
TOKEN_FILE_BYTES: Final = 4 * 1024**2

#: Log records that wait to be written; the server does not wait for whoever reads its log.
LOG_RECORDS: Final = 10_000

# client

#: How often a call to a server is tried, and for how many seconds in all; a restart of a server fits in.
CLIENT_ATTEMPTS: Final = 9
CLIENT_RETRY_SECONDS: Final = 30.0

#: How often a server is looked for when a graph is opened: whoever gave a wrong address wants to know it soon.
CLIENT_OPEN_ATTEMPTS: Final = 2

#: Seconds before the second attempt, twice as many before each further one, up to a bound; half of it is random.
CLIENT_BACKOFF_SECONDS: Final = 0.1
CLIENT_LONGEST_BACKOFF_SECONDS: Final = 4.0

#: Seconds to connect, for the next bytes of an answer, and until bytes that are sent are taken. A load or a merge
#: answers when it is done.
CLIENT_CONNECT_SECONDS: Final = 10.0
CLIENT_READ_SECONDS: Final = 600.0
CLIENT_WRITE_SECONDS: Final = 120.0

#: Connections of one handle at the same time, and of those how many are kept open while nobody uses them.
CLIENT_CONNECTIONS: Final = 64
CLIENT_IDLE_CONNECTIONS: Final = 16
CLIENT_IDLE_SECONDS: Final = 30.0

#: Bytes of an error answer that are read.
CLIENT_ERROR_BYTES: Final = 64 * 1024**2

#: Bytes of a file that are sent at a time.
CLIENT_PIECE_BYTES: Final = 1024**2

#: Bytes of the source of one load that a server takes as parts; they go to a temporary file there.
LOAD_PARTS_BYTES: Final = 64 * 1024**3

#: Files and tables of one load of a client of ours. Each is a file of the server for a while.
LOAD_PARTS: Final = 100_000

#: Seconds after which a client of ours sends again what the server had no room for. The header of the contract says 60.
BUSY_SECONDS: Final = 0.2

# agents

#: Rows and changes of one answer to an agent unless it asks for more, the most that it can ask for, and bytes of one
#: answer. Whatever is answered fills the memory that the agent thinks with.
MCP_ROWS: Final = 200
MCP_MOST_ROWS: Final = 10_000
MCP_ANSWER_BYTES: Final = 256 * 1024

#: Commits of one answer to an agent, and the most that it can ask for.
MCP_COMMITS: Final = 50
MCP_MOST_COMMITS: Final = 1_000

#: Names of branches or graphs, conflicts of a merge, hits of a search and hops around them in one answer to an agent.
MCP_MOST_NAMES: Final = 1_000
MCP_CONFLICTS: Final = 50
MCP_MOST_HITS: Final = 100
MCP_MOST_HOPS: Final = 5

#: Sessions of one agent at a graph of a server, and seconds after which one that is not used ends.
MCP_SESSIONS: Final = 64
MCP_IDLE_SECONDS: Final = 1_800

#: Bytes of one message of an agent.
MCP_MESSAGE_BYTES: Final = 4 * 1024**2

#: Calls of one agent over stdio that are worked on at once.
MCP_THREADS: Final = 8
