"""From the recommendations file to what each section prints: sentences, tables, charts."""
