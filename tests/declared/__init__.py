"""How every declared error is reached over HTTP: one table a surface, of good requests and of what spoils them."""
