"""Values and bytes on which client and server must agree; pure: no socket, no file, no clock."""
