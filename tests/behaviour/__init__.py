"""What a graph does, wherever it is: in this process, behind one server, behind two in turns; on a disk and on S3."""
