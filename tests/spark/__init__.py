"""The Spark engine on a real Spark session; the fixture `spark` is one per test process."""
