"""Controllers whose work only clients of the fake API see."""
