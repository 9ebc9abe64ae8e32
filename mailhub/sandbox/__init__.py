"""The mail server of the first run: IMAP and SMTP on loopback, with seeded mailboxes."""
