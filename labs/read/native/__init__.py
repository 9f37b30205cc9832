"""Restricted Python that the machine's C compiler makes fast: functions over arrays, and methods of
objects. Without a compiler Python performs the same code."""
