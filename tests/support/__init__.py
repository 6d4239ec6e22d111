"""Tools that tests share: servers, waiting, builders."""
