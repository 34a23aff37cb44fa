"""Pages that people look at: a run's certificate beside what was measured, and what each mechanism would carry."""
