"""SQL and the thread that runs it; knows no connection and no endpoint's holder."""
