def write_report(*a, **k): raise SystemExit("later")
